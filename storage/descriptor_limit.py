"""Limits on open file descriptors: a share of what the process may open."""

import resource


def descriptor_limit(most: int, share: float) -> int:
    """share -- of the process's limit, which the server raises at start."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, int(descriptors * share)))
