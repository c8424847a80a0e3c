// The desktop app.
int main() {
  return 0;
}
