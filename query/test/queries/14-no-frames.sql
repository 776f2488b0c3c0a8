select frame from hits where frame > 5 and frame < 3
