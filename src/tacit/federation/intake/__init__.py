"""One message each from millions of devices: the open question, workers that store messages, a shuffler, the device."""
