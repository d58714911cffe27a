"""The log told to the world: following it by position, and (with brokers) publishing it as CloudEvents."""
