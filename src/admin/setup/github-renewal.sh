credentials
step complete
