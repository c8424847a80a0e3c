// The app as a command: without a display, with a platform that is not there, and in places that
// write numbers with a comma.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

const std::string kApp = VERSIEVE_BINARY_DIR "/bin/versieve-gui ";
const std::string kDatabase = VERSIEVE_SOURCE_DIR "/db/measured/h100-survey.db";
const std::string kNoDisplay = "env -u DISPLAY -u WAYLAND_DISPLAY -u QT_QPA_PLATFORM ";

void check_no_window(const std::string& environment, const std::string& part) {
  const CommandResult result = run_line("ulimit -c 0; " + environment + kApp + kDatabase);
  CAPTURE(environment, result.out, result.err);
  CHECK(result.code == 4);
  CHECK(result.out.empty());
  CHECK(is_one_sentence(result.err));
  CHECK(result.err.find(part) != std::string::npos);
  CHECK(result.err.find("--screenshot") != std::string::npos);
}

// The picture of a page under this environment.
std::string picture(const std::string& environment, const std::string& page) {
  const TempFolder folder;
  const std::string file = (folder / "page.png").string();
  const CommandResult result = run_line(environment + kApp + "--page " + page +
                                        " --size 1280x860 --screenshot " + file + " " + kDatabase);
  CAPTURE(environment, result.err);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  return text_of_file(file);
}

}  // namespace

TEST_CASE("without a display the app says so in a sentence, and does what needs none") {
  check_no_window(kNoDisplay, "there is no display");
  for (const std::string word : {"--help", "-h"}) {
    const CommandResult help = run_line(kNoDisplay + kApp + word);
    CHECK(help.code == 0);
    CHECK(help.out.find("--screenshot") != std::string::npos);
  }
  const CommandResult version = run_line(kNoDisplay + kApp + "--version");
  CHECK(version.code == 0);
  CHECK(version.out.rfind("versieve-gui ", 0) == 0);
  CHECK(picture(kNoDisplay, "points").substr(1, 3) == "PNG");
}

TEST_CASE("a platform, a display or a plug-in that is not there is named") {
  check_no_window(kNoDisplay + "QT_QPA_PLATFORM=wayland XDG_RUNTIME_DIR=/nonexistent ",
                  "QT_QPA_PLATFORM=wayland");
  check_no_window(kNoDisplay + "QT_QPA_PLATFORM=nonsense ", "\"nonsense\"");
  check_no_window(kNoDisplay + "DISPLAY=:4711 ", "cannot be used");
  CHECK(picture(kNoDisplay + "QT_QPA_PLATFORM=nonsense ", "points").substr(1, 3) == "PNG");
}

TEST_CASE("a picture of a file that is no database is refused, and none is written") {
  const TempFolder folder;
  const std::string junk = (folder / "junk.db").string();
  std::ofstream(junk) << "no database";
  for (const std::string& file : {junk, (folder / "nowhere.db").string()}) {
    CAPTURE(file);
    const std::string png = (folder / "page.png").string();
    const CommandResult result = run_line(kNoDisplay + kApp + "--screenshot " + png + " " + file);
    CHECK(result.code == 3);
    CHECK(result.err.find(file) != std::string::npos);
    CHECK(!fs::exists(png));
  }
}

TEST_CASE("a picture of a session is of its page, or of the page that is asked for") {
  const TempFolder folder;
  const auto session = [&](const std::string& name, const std::string& database,
                           const std::string& page, const std::string& values) {
    const std::string file = (folder / name).string();
    std::ofstream(file) << R"({"format":"versieve-session","version":1,"database":")" << database
                        << R"(","page":")" << page << R"(","values":{)" << values << "}}";
    return file;
  };
  const auto drawn = [&](const std::string& file, const std::string& options) {
    const std::string png = (folder / "page.png").string();
    fs::remove(png);
    const CommandResult result =
        run_line("timeout 300 " + kApp + options + " --size 1280x860 --screenshot " + png + " " +
                 file);
    CAPTURE(file, result.err);
    REQUIRE(result.code == 0);
    return text_of_file(png);
  };
  const std::string points = session("points.vsession", kDatabase, "points", "");
  CHECK(drawn(points, "") == drawn(kDatabase, "--page points"));
  CHECK(drawn(points, "--page runs") == drawn(kDatabase, "--page runs"));
  const std::string planner = session("planner.vsession", kDatabase, "planner", "");
  CHECK(drawn(planner, "") == drawn(kDatabase, "--page planner"));
  CHECK(drawn(planner, "--page points --filter 'L>=16K'") ==
        drawn(kDatabase, "--page points --filter 'L>=16K'"));
  const std::string machine = R"("planner.Machine":"NVIDIA H200")";
  const std::string slower = R"(,"planner.Memory bandwidth in TB/s":2.0)";
  const std::string both = session("both.vsession", kDatabase, "planner", machine + slower);
  CHECK(drawn(session("machine.vsession", kDatabase, "planner", machine), "--bandwidth 2") ==
        drawn(both, ""));
  CHECK(drawn(both, "--bandwidth 3") != drawn(both, ""));
  // A page that there is not is that of a window without one; no database is waited for.
  CHECK(drawn(session("other.vsession", kDatabase, "nosuch", ""), "") == drawn(points, ""));
  CHECK(drawn(session("none.vsession", "", "compare", ""), "") != drawn(points, ""));
  const std::string broken = (folder / "broken.vsession").string();
  std::ofstream(broken) << "{";
  const CommandResult result = run_line("timeout 60 " + kApp + "--screenshot " +
                                        (folder / "no.png").string() + " " + broken);
  CHECK(result.code == 3);
  CHECK(is_one_sentence(result.err));
  CHECK(!fs::exists(folder / "no.png"));
}

TEST_CASE("options of the app that it cannot take are a usage error") {
  const std::string offscreen = "QT_QPA_PLATFORM=offscreen ";
  for (const std::string options : {"--nonsense", "--bandwidth 2,5", "--bandwidth 11", "--page no",
                                    "--size 10x10", "--colors blue", "a.db b.db"}) {
    const CommandResult result = run_line(offscreen + kApp + options);
    CAPTURE(options, result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find("versieve-gui: ") != std::string::npos);
  }
}

TEST_CASE("a decimal comma, a Turkish i and another script change no picture") {
  const TempFolder locales;
  const std::string plain = picture("LC_ALL=C.UTF-8 ", "points");
  const std::string runs = picture("LC_ALL=C.UTF-8 ", "runs");
  for (const std::string name : {"de_DE", "fr_FR", "tr_TR", "fa_IR"}) {
    const std::string made = "localedef -i " + name + " -f UTF-8 " +
                             (locales / (name + ".UTF-8")).string() + " 2>/dev/null";
    if (std::system(made.c_str()) != 0) {
      WARN("there is no locale " << name << " here");
      continue;
    }
    // FC_LANG: which fonts a machine has for a language is no matter of the app.
    const std::string environment =
        "FC_LANG=en LOCPATH=" + locales.path().string() + " LC_ALL=" + name + ".UTF-8 ";
    CAPTURE(name);
    CHECK(picture(environment, "points") == plain);
    CHECK(picture(environment, "runs") == runs);
    if (name == "tr_TR") {  // a device's name is looked up: its I has no i there
      CHECK(picture(environment, "planner") == picture("LC_ALL=C.UTF-8 ", "planner"));
    }
  }
}
