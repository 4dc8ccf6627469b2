"""What turns media units into decisions and speech: the contract, the engines behind it, and the model store."""
