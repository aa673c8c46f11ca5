name = "orders"
