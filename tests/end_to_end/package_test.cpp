// The Debian package, made by cpack: what is in it, what it depends on, that its files are valid,
// and that the programs start from it and find their data.
#include <catch2/catch.hpp>

#include "db/schema.h"
#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

const std::string kId = "org.versieve.Versieve";

bool has_program(const std::string& name) {
  return run_line("command -v " + name).code == 0;
}

// What making a package takes and is missing here; empty: nothing.
std::string missing_tool() {
  for (const char* const tool : {"dpkg-deb", "dpkg-shlibdeps", "file"}) {
    if (!has_program(tool)) {
      return tool;
    }
  }
  return {};
}

// Not compressed, for the test's time.
fs::path package_made_in(const TempFolder& folder) {
  const CommandResult made = run_line("cd " VERSIEVE_BINARY_DIR
                                      " && cpack -G DEB -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B " +
                                      folder.path().string());
  CAPTURE(made.out, made.err);
  REQUIRE(made.code == 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".deb") {
      return entry.path();
    }
  }
  FAIL("cpack left no package");
  return {};
}

std::string field(const fs::path& package, const std::string& name) {
  return run_line("dpkg-deb -f " + package.string() + " " + name).out;
}

void check_valid(const std::string& tool, const std::string& command) {
  if (!has_program(tool)) {
    WARN("there is no " << tool << " here");
    return;
  }
  const CommandResult result = run_line(command);
  CAPTURE(command, result.out, result.err);
  CHECK(result.code == 0);
}

}  // namespace

TEST_CASE("the Debian package holds the programs, their data and what a desktop needs") {
  if (const std::string missing = missing_tool(); !missing.empty()) {
    WARN("not tried: there is no " << missing << " here, and a package is made with it");
    return;
  }
  const TempFolder folder;
  const fs::path package = package_made_in(folder);
  const std::string list = run_line("dpkg-deb -c " + package.string()).out;
  for (const std::string path :
       {"bin/versieve", "bin/versieve-gui", "share/versieve/db/measured/h100.db",
        "share/versieve/engine/demo/nsa/config.json",
        "share/versieve/engine/io/prompt/render_chat.py", "share/man/man1/versieve.1.gz",
        "share/man/man1/versieve-gui.1.gz", "share/doc/versieve/copyright",
        "share/doc/versieve/changelog.gz"}) {
    CAPTURE(path);
    CHECK(list.find(" ./usr/" + path + "\n") != std::string::npos);
  }
  for (const std::string& path :
       {"applications/" + kId + ".desktop", "metainfo/" + kId + ".metainfo.xml",
        "mime/packages/" + kId + ".xml", "icons/hicolor/scalable/apps/" + kId + ".svg"}) {
    CAPTURE(path);
    CHECK(list.find(" ./usr/share/" + path + "\n") != std::string::npos);
  }
  CHECK(list.find("__pycache__") == std::string::npos);
  CHECK(list.find(" ./usr/include") == std::string::npos);
  CHECK(list.find("rwxrwx") == std::string::npos);

  const std::string depends = field(package, "Depends");
  for (const char* const library : {"libc6 (>= ", "libqt6widgets6 (>= ", "libqt6gui6 (>= "}) {
    CAPTURE(depends, library);
    CHECK(depends.find(library) != std::string::npos);
  }
  CHECK(field(package, "Package") == "versieve\n");
  CHECK(field(package, "Installed-Size").size() > 4);

  const std::string root = (folder / "root").string();
  REQUIRE(run_line("dpkg-deb -x " + package.string() + " " + root).code == 0);
  const std::string share = root + "/usr/share/";
  check_valid("desktop-file-validate",
              "desktop-file-validate " + share + "applications/" + kId + ".desktop");
  check_valid("appstreamcli",
              "appstreamcli validate --no-net " + share + "metainfo/" + kId + ".metainfo.xml");
  check_valid(
      "lintian",  // this one is not compressed
      "lintian --fail-on error,warning --suppress-tags uses-no-compression-for-data-tarball " +
          package.string());
  check_valid("man", "man -l --warnings " + share + "man/man1/versieve.1.gz >" +
                         (folder / "page").string());

  const std::string bin = "cd / && " + root + "/usr/bin/";
  const CommandResult version = run_line(bin + "versieve --version");
  CHECK(version.code == 0);
  CHECK(version.out == "versieve " + field(package, "Version"));
  const CommandResult doctor = run_line(bin + "versieve doctor --json");
  CHECK(nlohmann::json::parse(doctor.out).at("data") == share + "versieve");
  const CommandResult picture = run_line(
      "env -u DISPLAY -u WAYLAND_DISPLAY " + root + "/usr/bin/versieve-gui --screenshot " +
      (folder / "page.png").string() + " " + share + "versieve/db/measured/h100-survey.db");
  CAPTURE(picture.err);
  CHECK(picture.code == 0);
  CHECK(fs::exists(folder / "page.png"));
}

TEST_CASE("the desktop knows a database of Versieve by what the schema writes into it") {
  const std::string folder = VERSIEVE_SOURCE_DIR "/gui/package/";
  const std::string type = "application/vnd.versieve.database";
  const std::string known = text_of_file(folder + kId + ".xml");
  std::string id;
  for (int shift = 24; shift >= 0; shift -= 8) {
    id += static_cast<char>(versieve::db::kApplicationId >> shift & 0xff);
  }
  CHECK(known.find("<mime-type type=\"" + type + "\">") != std::string::npos);
  CHECK(known.find("offset=\"68\" value=\"" + id + "\"") != std::string::npos);
  CHECK(text_of_file(VERSIEVE_SOURCE_DIR "/db/measured/h100.db").substr(68, 4) == id);
  CHECK(text_of_file(folder + kId + ".desktop").find("MimeType=" + type + ";") !=
        std::string::npos);
  CHECK(text_of_file(folder + kId + ".desktop").find("Exec=versieve-gui %f\n") !=
        std::string::npos);
  CHECK(text_of_file(folder + kId + ".metainfo.xml.in").find("<mediatype>" + type) !=
        std::string::npos);
}
