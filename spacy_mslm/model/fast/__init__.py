"""Faster computation with the same results: CPU kernels, sparse gradients, ONNX and int8 encoders."""
