#include "engine/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace versieve::cli {
namespace {

// False, with errno set, when not everything could be written.
bool try_write(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written < 0 ? 0 : written));
  }
  return true;
}

// Text that is no UTF-8 (a file's name, say) is printed with replacement characters.
std::string line_of(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// A sentence stands on one line, and what a file put into it cannot make it endless or move a
// terminal's cursor.
std::string one_line(std::string text) {
  constexpr std::size_t kBegin = 1200, kEnd = 300;  // bytes that are kept of a longer one
  if (text.size() > kBegin + kEnd) {
    text = text.substr(0, kBegin) + " ... " + text.substr(text.size() - kEnd);
  }
  for (char& character : text) {
    const unsigned char byte = static_cast<unsigned char>(character);
    character = byte < 0x20 || byte == 0x7f ? ' ' : character;
  }
  while (!text.empty() && text.back() == ' ') {
    text.pop_back();
  }
  return text;
}

}  // namespace

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1) {
      // Read-only: what is written there still fails, as it should. open takes the lowest number.
      [[maybe_unused]] const int taken = ::open("/dev/null", O_RDONLY);
    }
  }
}

void write_output(std::string_view text) {
  if (!try_write(STDOUT_FILENO, text)) {
    throw Error(ExitCode::kEnvironment,
                std::string("standard output cannot be written: ") + std::strerror(errno));
  }
}

void write_progress(std::string_view text) {
  try_write(STDERR_FILENO, text);
}

void write_notes(const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) {
    write_progress("note: " + one_line(remark) + "\n");
  }
}

int print_answer(const Answer& answer, bool json) {
  if (json) {
    write_output(line_of(answer.json));
  } else if (!answer.text.empty()) {
    const std::string text = answer.text.back() == '\n' ? answer.text : answer.text + "\n";
    answer.beside_output ? write_progress(text) : write_output(text);
  }
  return static_cast<int>(answer.code);
}

int print_error(ExitCode code, const std::string& sentence, bool json) {
  const std::string line = one_line(sentence);
  if (json) {
    try_write(STDOUT_FILENO, line_of({{"error", line}, {"code", static_cast<int>(code)}}));
  }
  try_write(STDERR_FILENO, "versieve: " + line + "\n");
  return static_cast<int>(code);
}

}  // namespace versieve::cli
