"""Export of pipelines to Hugging Face and ONNX."""
