"""PrivateKT: holders answer a few questions per round with their local models, and the answers teach a global one."""
