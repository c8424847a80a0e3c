// The `versieve` command: parse, run one command, print its answer or one sentence on why not.
#include <exception>
#include <new>

#include "engine/cli/command_line.h"
#include "engine/cli/output.h"

int main(int argc, char** argv) {
  using namespace versieve;
  cli::prepare_streams();
  const bool json = cli::asks_for_json(argc, argv);
  try {
    return cli::print_answer(cli::answer_of(argc, argv), json);
  } catch (const Error& error) {
    return cli::print_error(error.code(), error.what(), json);
  } catch (const std::bad_alloc&) {
    return cli::print_error(ExitCode::kEnvironment, "out of memory", json);
  } catch (const std::exception& error) {
    return cli::print_error(ExitCode::kEnvironment, std::string("unexpected: ") + error.what(),
                            json);
  }
}
