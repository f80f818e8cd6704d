# muster_module(NAME
#   SOURCES a.cc b.cc          the work
#   TESTS a_test.cc            its tests, one executable per module
#   ENTRY main.cc              listed here, built elsewhere (the binary's main)
#   DEPENDS core files         other modules that its public headers may use
#   LIBRARIES yaml-cpp         third-party libraries, private: their headers do not escape the module
#   DATA data/x.yaml ...)      files built into the binary (see MusterEmbed.cmake)
#
# Makes the library muster_NAME, its tests, and one compile check per public header (each must compile alone).
# A module sees only the include roots of the modules it links, so a forbidden #include does not compile.
# A source or test that lies in the folder but is not listed stops the configuration.

add_library(muster_flags INTERFACE)
target_compile_options(muster_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  -Wno-missing-field-initializers
  # g++ 12 reports falsely at -O3: on std::string concatenation (GCC bug 105651) and on std::expected.
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-dangling-else;-Wno-restrict;-Wno-maybe-uninitialized>"
  # libstdc++ 12's stable_sort uses its own deprecated buffer.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
# Results must not depend on the compiler's freedom to fuse a*b+c.
target_compile_options(muster_flags INTERFACE -ffp-contract=off)

function(muster_require_registered)
  file(GLOB found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  foreach(name ${found})
    if(NOT name IN_LIST ARGN)
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${name} is not listed in its CMakeLists.txt: "
                          "an unlisted test or source would silently never run")
    endif()
  endforeach()
endfunction()

function(muster_module NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;ENTRY;DEPENDS;LIBRARIES;DATA" ${ARGN})
  muster_require_registered(${ARG_SOURCES} ${ARG_TESTS} ${ARG_ENTRY})
  set(target muster_${NAME})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC fmt::fmt PRIVATE muster_flags ${ARG_LIBRARIES})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(${target} PUBLIC muster_${dependency})
  endforeach()
  if(ARG_DATA)
    muster_embed(${target} ${NAME} ${ARG_DATA})
  endif()

  if(NOT MUSTER_TESTS)
    return()
  endif()
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/include include/muster/${NAME}/*.h)
  if(headers)
    set(alone)
    foreach(header ${headers})
      string(REPLACE "/" "_" stem ${header})
      set(file ${CMAKE_CURRENT_BINARY_DIR}/alone/${stem}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${header}\"\n" @ONLY)
      list(APPEND alone ${file})
    endforeach()
    add_library(${target}_headers OBJECT ${alone})
    target_link_libraries(${target}_headers PRIVATE ${target} muster_flags)
  endif()
  if(ARG_TESTS)
    add_executable(${target}_test ${ARG_TESTS})
    target_include_directories(${target}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${target}_test PRIVATE ${target} muster_flags ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${target}_test PRIVATE
      MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MUSTER_SHARED_DATA="${CMAKE_SOURCE_DIR}/../shared/data")
    gtest_discover_tests(${target}_test TEST_PREFIX "${NAME}: " DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
  endif()
endfunction()
