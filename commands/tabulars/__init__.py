"""What commands on tables and views share: names, metadata files and the places they hold."""
