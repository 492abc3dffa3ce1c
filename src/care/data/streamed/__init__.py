"""Pictures that training reads where they are: decoded by processes of their own, without preparing them."""
