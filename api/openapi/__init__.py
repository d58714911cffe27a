"""The OpenAPI documents of the management and the history API, and a page that shows them."""
