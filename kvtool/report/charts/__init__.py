"""The charts of the page, one module each: from the document to a picture and its table."""
