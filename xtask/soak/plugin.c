long
twice (long number)
{
  return 2 * number;
}
