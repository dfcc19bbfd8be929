"""schedule → execute → update: requests in, tokens out."""
