"""What the workers do."""


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")
