// The entry point of every test program of the app. What a test throws, as on a full disk, is said
// in a sentence and fails the program, which QTEST_MAIN would abort.
#pragma once

#include <QApplication>
#include <QTest>
#include <cstdio>
#include <exception>

#include "tests/support/own_folder.h"

namespace versieve::gui {

template <class Case>
int run_test(int argc, char** argv, const char* source) {
  try {
    const test::OwnFolder folder;
    QApplication application(argc, argv);
    QApplication::setAttribute(Qt::AA_Use96Dpi);
    Case test;
    QTest::setMainSourcePath(source);
    return QTest::qExec(&test, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace versieve::gui

#define VERSIEVE_GUI_TEST(Case)                                 \
  int main(int argc, char** argv) {                             \
    return versieve::gui::run_test<Case>(argc, argv, __FILE__); \
  }
