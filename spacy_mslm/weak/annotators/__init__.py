"""What finds concepts in notes. Each module is an annotator, registered under [misc]."""
