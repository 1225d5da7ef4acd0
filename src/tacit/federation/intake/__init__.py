"""One message each from very many devices: the open question, workers that store, a shuffler, and the device itself."""
