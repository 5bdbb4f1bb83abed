"""What a device can do at best: figures with their interval and origin, and the file that holds them."""
