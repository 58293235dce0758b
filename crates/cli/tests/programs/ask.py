"""Asks one question at the terminal and one by a line of its own."""
name = input("who is" + "? ")
print("hello", name[::-1], flush=True)
