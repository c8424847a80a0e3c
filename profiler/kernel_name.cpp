#include "profiler/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace versieve::profiler {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

void erase_all(const std::string& part, std::string& text) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

// Outside of template arguments and parentheses.
std::size_t last_outside(char wanted, const std::string& text) {
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (depth == 0 && text[i] == wanted) {
      return i;
    }
    depth += (text[i] == '>' || text[i] == ')') - (text[i] == '<' || text[i] == '(');
  }
  return std::string::npos;
}

}  // namespace

std::string readable_kernel_name(const std::string& compiled) {
  std::string name = demangled(compiled);
  for (const char* part : {"(anonymous namespace)::", "versieve::kernels::", "versieve::"}) {
    erase_all(part, name);
  }
  if (name.size() > 1 && name.back() == ')') {  // the parameters
    int depth = 0;
    std::size_t open = name.size();
    do {
      --open;
      depth += (name[open] == ')') - (name[open] == '(');
    } while (depth > 0 && open > 0);
    name.erase(open);
  }
  const std::size_t space = last_outside(' ', name);  // behind the returned type
  return space == std::string::npos ? name : name.substr(space + 1);
}

}  // namespace versieve::profiler
