environment
step complete
