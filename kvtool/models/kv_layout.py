"""How the values of stored KV are laid out: a field of its namespace. No torch."""

KV_LAYOUTS = {"rotate": "block-major", "nope": "block-major, keys unrotated"}  # by reuse scheme
