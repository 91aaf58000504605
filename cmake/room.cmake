# stoker_room(NAME SOURCES ... [TESTS ...] [LINKS ...] [PRIVATE_LINKS ...] [ARITHMETIC])
#   A room of docs/architecture.md: the static library stoker_NAME, and one test program NAME_test of its TESTS.
#   LINKS are rooms and libraries that it may include. ARITHMETIC: compiled with the arithmetic flags.
function(stoker_room name)
  cmake_parse_arguments(arg "ARITHMETIC" "" "SOURCES;TESTS;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(stoker_${name} STATIC ${arg_SOURCES})
  target_include_directories(stoker_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src
                                                   $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(stoker_${name} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  if(arg_ARITHMETIC)
    target_compile_options(stoker_${name} PRIVATE ${STOKER_ARITHMETIC_FLAGS})
  endif()
  if(Boost::headers IN_LIST arg_PRIVATE_LINKS AND STOKER_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio orders handlers by its queue's mutex, which the thread sanitizer sees, and adds a fence, which it does not.
    target_compile_options(stoker_${name} PRIVATE -Wno-tsan)
  endif()
  if(STOKER_TESTS AND arg_TESTS)
    stoker_test(${name}_test SOURCES ${arg_TESTS} LINKS stoker_${name})
    if(arg_ARITHMETIC)
      target_compile_options(${name}_test PRIVATE ${STOKER_ARITHMETIC_FLAGS})
    else()
      # The rooms keep their -O3, and so do tests of arithmetic; the others build in two thirds of the time.
      target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  endif()
endfunction()

# Tests keep what an engine packs in the build directory, and leave the user's store alone.
set(STOKER_TEST_ENVIRONMENT "STOKER_STORE=${PROJECT_BINARY_DIR}/store")

# stoker_test(NAME SOURCES ... LINKS ... [LABEL fast]): a GoogleTest program, each of its tests known to ctest; those of
# engine_test as engine.Suite.Test.
# Tests find the checked-in data through STOKER_SOURCE_DIR, and helpers in tests/support.
function(stoker_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;LINKS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL fast)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE STOKER_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             STOKER_BINARY_DIR="${PROJECT_BINARY_DIR}")
  include(GoogleTest)
  string(REGEX REPLACE "_test$" "." prefix ${name})
  gtest_discover_tests(${name} TEST_PREFIX ${prefix} DISCOVERY_TIMEOUT 120
                       PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600 ENVIRONMENT ${STOKER_TEST_ENVIRONMENT})
endfunction()

# stoker_fuzz(NAME LINKS ...): tests/fuzz/NAME.cc defines LLVMFuzzerTestOneInput. Under the asan preset a
# libFuzzer program fuzz_NAME; under every other one a test that replays tests/fuzz/corpus/NAME. The target `fuzzers` is all of
# them.
add_custom_target(fuzzers)
function(stoker_fuzz name)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  add_executable(fuzz_${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}.cc)
  target_link_libraries(fuzz_${name} PRIVATE ${arg_LINKS})
  target_compile_definitions(fuzz_${name} PRIVATE STOKER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(fuzzers fuzz_${name})
  if(STOKER_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} -runs=0 ${corpus})
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${corpus})
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fast TIMEOUT 300)
endfunction()
