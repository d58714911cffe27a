"""The rows of the read models, as events and the states they lead to fold to: pure, so that anybody can compute them from the log."""
