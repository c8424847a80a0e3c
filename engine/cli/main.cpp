// The `versieve` command.
int main() {
  return 2;
}
