# cmake -DROOT=<folder> -DSOURCES=<files by bars> -DOUT=<file> -P fit_code.cmake
# Writes a source whose fit_code() is a digest of the files.
string(REPLACE "|" ";" files "${SOURCES}")
set(digests "")
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} digest)
  string(APPEND digests "${file} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
file(WRITE ${OUT}.new "// Written by fit_code.cmake.
#include \"engine/analyse/fit/fit_code.h\"

namespace versieve::engine {

std::string_view fit_code() {
  return \"${digest}\";
}

}  // namespace versieve::engine
")
configure_file(${OUT}.new ${OUT} COPYONLY)
