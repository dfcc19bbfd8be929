"""The definition of every op in PyTorch with fp32 maths; also what runs on a CPU."""
