"""Messages without senders: sealed for the coordinator by holders, mixed by a shuffler that cannot read them."""
