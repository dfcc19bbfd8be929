"""The parts of the document, one module each."""
