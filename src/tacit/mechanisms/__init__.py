"""One mechanism a file: an exact sampler, an exact law for small domains, its spend and what it tolerates."""
