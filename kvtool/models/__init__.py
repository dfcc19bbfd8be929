"""The data plane: models from files to logits. torch and transformers live here."""
