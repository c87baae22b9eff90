"""The tests, in folders by what they look at."""
