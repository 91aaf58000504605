# Warnings, arithmetic and sanitizer flags for every target of the project.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in std::string + (GCC bug 105651) and reads of the other alternatives when a
  # std::variant is moved. clang and the sanitizers look for both.
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
endif()

if(CMAKE_UNITY_BUILD)
  # A source counts as a header then, and sees the names of others. The other builds tell of the rest.
  add_compile_options(-Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

# docs/numerics.md: a product and a sum are two roundings unless the source says fma.
add_compile_options(-ffp-contract=off)

add_compile_options($<$<CONFIG:Debug>:-D_GLIBCXX_ASSERTIONS>)

if(STOKER_SANITIZE STREQUAL "address")
  set(stoker_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(STOKER_SANITIZE STREQUAL "thread")
  set(stoker_sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT STOKER_SANITIZE STREQUAL "")
  message(FATAL_ERROR "STOKER_SANITIZE: expected empty, address or thread, found '${STOKER_SANITIZE}'")
endif()
if(stoker_sanitize)
  add_compile_options(${stoker_sanitize} -DSTOKER_SANITIZED)  # tests do a part of their work
  add_link_options(${stoker_sanitize})
endif()
if(STOKER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "STOKER_FUZZ needs clang, found ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Rooms that do arithmetic use the fma of the instruction set: the same bits as std::fma, without a call.
# include/stoker/engine.h refuses a processor without them.
set(STOKER_ARITHMETIC_FLAGS -mavx2 -mfma -mf16c)
