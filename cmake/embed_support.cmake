# cmake -DFILES=a.h;b.h -DPREFIX=cpu_support_ -DHEADER=support.h -DOUT=support.cc -P embed_support.cmake
# writes a C++ source with a function cpu_support_NAME() for each file, which returns the file's text
# without comments, blank lines, `#pragma once` and includes of other support code: generators
# concatenate the pieces themselves, and compilers and caches see only code. Comments are `//`, at
# least two spaces behind code.
set(functions "")
foreach(file ${FILES})
  file(READ ${file} text)
  if(text MATCHES "/\\*" OR text MATCHES "\\)support\"")
    message(FATAL_ERROR "${file}: only // comments, and no )support\" in it")
  endif()
  set(text "\n${text}")
  string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "  +//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n#pragma once" "" text "${text}")
  string(REGEX REPLACE "\n#include \"[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  get_filename_component(name ${file} NAME_WE)
  string(APPEND functions
    "std::string_view ${PREFIX}${name}() {\n  return R\"support(${text})support\";\n}\n\n")
endforeach()
file(WRITE ${OUT}
  "#include \"${HEADER}\"\n\nnamespace worker {\n\n${functions}}  // namespace worker\n")
