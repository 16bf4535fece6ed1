# Joins the attention page and writes it as a C++ source. As a script, on every change of the page:
#   cmake -DVIEWER=<folder> -DOUTPUT=<file> -P embed.cmake
# Included, it adds that step and sets headway_viewer_source to the file.

# The page's scripts, in the order in which they need each other.
set(headway_viewer_scripts strings weights tokens heatmap state media sound stage strip sentence heads detail export main)

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${VIEWER}/page.html page)
  file(READ ${VIEWER}/style.css style)
  set(script "")
  foreach(name IN LISTS headway_viewer_scripts)
    file(READ ${VIEWER}/${name}.js part)
    string(APPEND script "${part}")
  endforeach()
  string(REPLACE "/*style*/" "${style}" page "${page}")
  string(REPLACE "/*script*/" "${script}" page "${page}")
  # As numbers, so that neither C++'s limit on literals nor its escapes matter.
  file(WRITE ${OUTPUT}.html "${page}")
  file(READ ${OUTPUT}.html bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUTPUT} "// The attention page, written by cmake/embed.cmake.
#include \"explain/viewer_page.h\"

namespace headway::inline v0::internal {
namespace {
const unsigned char kPage[] = {
${bytes}};
}  // namespace

std::string_view viewer_page() { return {reinterpret_cast<const char*>(kPage), sizeof(kPage)}; }

}  // namespace headway::inline v0::internal
")
  return()
endif()

set(headway_viewer_source ${PROJECT_BINARY_DIR}/viewer/viewer_page.cpp)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/viewer)
set(headway_viewer_parts ${headway_viewer_scripts})
list(TRANSFORM headway_viewer_parts REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/viewer/\\1.js")
add_custom_command(
  OUTPUT ${headway_viewer_source}
  COMMAND ${CMAKE_COMMAND} -DVIEWER=${PROJECT_SOURCE_DIR}/viewer -DOUTPUT=${headway_viewer_source}
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${headway_viewer_parts} ${PROJECT_SOURCE_DIR}/viewer/page.html ${PROJECT_SOURCE_DIR}/viewer/style.css
          ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the attention page" VERBATIM)
