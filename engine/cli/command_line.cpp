#include "engine/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"

namespace versieve::cli {
namespace {

struct Declared {
  CLI::App* options;
  Run run;
};

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 the answer is no, 2 usage, 3 bad input file, 4 environment.";

std::vector<Declared> declare_commands(CLI::App& app, const CommandContext& context) {
  std::vector<Declared> declared;
  for (const Command& command : kCommands) {
    CLI::App* options = app.add_subcommand(command.name, command.question);
    options->fallthrough();  // --json and --version stand before or after the command
    declared.push_back({options, command.declare(*options, context)});
    check_texts(*options);
  }
  return declared;
}

Answer text_answer(const char* key, const std::string& text) {
  return {.json = {{key, text}}, .text = text};
}

bool is_command(std::string_view name) {
  return std::any_of(std::begin(kCommands), std::end(kCommands),
                     [&](const Command& command) { return name == command.name; });
}

// A first word that is no command deserves a better sentence than the parser's.
std::string usage_sentence(const std::vector<std::string>& arguments, const std::string& parsers) {
  for (const std::string& argument : arguments) {
    if (argument.empty() || argument[0] != '-') {
      return is_command(argument) ? parsers : "unknown command '" + argument + "'";
    }
  }
  return parsers;
}

// Whether one of the command's outputs goes where its report would.
bool takes_standard_output(const CLI::App& options, bool json) {
  const std::vector<std::string> outputs = outputs_on_standard_output(options);
  if (outputs.size() > 1) {
    throw Error(ExitCode::kUsage,
                "'" + outputs[1] + "' is standard output, which takes one output alone");
  }
  if (!outputs.empty() && json) {
    throw Error(ExitCode::kUsage, "'" + outputs[0] +
                                      "' is standard output, where --json prints its object: name "
                                      "another file for the output");
  }
  return !outputs.empty();
}

}  // namespace

bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc,
                     [](const char* argument) { return std::string_view(argument) == "--json"; });
}

Answer answer_of(int argc, char** argv) {
  CommandContext context;
  CLI::App app("Versieve explores designs for sparse speculative verification.", "versieve");
  app.footer(kFooter);
  app.add_flag("--json", context.json, "print one JSON object and nothing else");
  app.set_version_flag("--version", std::string("versieve ") + VERSIEVE_VERSION);
  app.require_subcommand(1);
  const std::vector<Declared> commands = declare_commands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return text_answer("help", app.help());
  } catch (const CLI::CallForVersion&) {
    return {.json = {{"version", VERSIEVE_VERSION}}, .text = "versieve " VERSIEVE_VERSION};
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::kUsage,
                usage_sentence({argv + std::min(argc, 1), argv + argc}, error.what()) +
                    " (versieve --help lists the commands and options)");
  }
  for (const Declared& command : commands) {
    if (command.options->parsed()) {
      const bool beside_output = takes_standard_output(*command.options, context.json);
      Answer answer = command.run();
      answer.beside_output = beside_output;
      return answer;
    }
  }
  throw Error(ExitCode::kUsage, "a command is needed (versieve --help lists them)");
}

}  // namespace versieve::cli
