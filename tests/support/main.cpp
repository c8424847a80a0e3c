// The entry point of every test program but those of the app.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <exception>

#include "tests/support/own_folder.h"

int main(int argc, char** argv) {
  try {
    const versieve::test::OwnFolder folder;
    return Catch::Session().run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
