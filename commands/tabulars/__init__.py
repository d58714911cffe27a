"""What commands on tables and views share: names, metadata files and claimed locations."""
