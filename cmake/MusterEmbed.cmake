# muster_embed(TARGET MODULE FILE...)
#
# Builds files into the binary, so that muster is one file that runs anywhere offline. In the module's sources:
#   #include "muster_MODULE_data.h"
#   for (const muster::embedded::File& file : muster::MODULE::embedded_files()) ... file.name, file.content
# `name` is the path relative to the repository root (or the bare file name for files outside it).
function(muster_embed TARGET MODULE)
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  set(assembly "")
  set(declarations "")
  set(entries "")
  set(index 0)
  foreach(path ${ARGN})
    cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR} NORMALIZE)
    cmake_path(IS_PREFIX CMAKE_SOURCE_DIR ${path} inside)
    if(inside)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    else()
      cmake_path(GET path FILENAME name)
    endif()
    set(symbol muster_${MODULE}_data_${index})
    string(APPEND assembly
      "asm(\".section .rodata\\n.global ${symbol}\\n${symbol}:\\n.incbin \\\"${path}\\\"\\n"
      ".global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.previous\\n\");\n")
    string(APPEND declarations "extern \"C\" const char ${symbol}[];\nextern \"C\" const char ${symbol}_end[];\n")
    string(APPEND entries
      "      {\"${name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    list(APPEND inputs ${path})
    math(EXPR index "${index} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${dir}/muster_${MODULE}_data.h @ONLY CONTENT
"#pragma once
#include <span>
#include <string_view>
namespace muster::embedded {
#ifndef MUSTER_EMBEDDED_FILE
#define MUSTER_EMBEDDED_FILE
struct File {
  std::string_view name;
  std::string_view content;
};
#endif
}  // namespace muster::embedded
namespace muster::${MODULE} {
std::span<const embedded::File> embedded_files();
}  // namespace muster::${MODULE}
")
  file(CONFIGURE OUTPUT ${dir}/muster_${MODULE}_data.cc @ONLY CONTENT
"#include \"muster_${MODULE}_data.h\"
#include <array>
#include <cstddef>
${assembly}${declarations}namespace muster::${MODULE} {
std::span<const embedded::File> embedded_files() {
  static const std::array<embedded::File, ${index}> files{{
${entries}  }};
  return files;
}
}  // namespace muster::${MODULE}
")
  target_sources(${TARGET} PRIVATE ${dir}/muster_${MODULE}_data.cc)
  target_include_directories(${TARGET} PRIVATE ${dir})
  set_source_files_properties(${dir}/muster_${MODULE}_data.cc PROPERTIES OBJECT_DEPENDS "${inputs}" COMPILE_OPTIONS -Wno-pedantic)
endfunction()
