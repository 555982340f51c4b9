# Sources that are compiled together.
#
# lfarm_joined(OUT PATH SOURCES...) sets OUT to what the compiler is given for sources of the component
# at PATH: with LFARM_JOIN files that include up to eight of them each, in the order of the list,
# otherwise the sources themselves. Headers are then parsed, and templates instantiated, once for eight
# sources. Functions in their anonymous namespaces need names of their own (distinct_names in
# tests/tidy/rules.h). Only the preset `release` does this: the other presets and `make lint` take each
# source as it stands, and so find an include that is missing.
option(LFARM_JOIN "Compile several sources of a component at a time" OFF)
set(LFARM_JOINED_MAX 8)
set(LFARM_JOINED_OPTIONS)
if(LFARM_JOIN AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # To GCC a source that another one includes is a header, whose types must not hold types of an
  # anonymous namespace.
  set(LFARM_JOINED_OPTIONS -Wno-subobject-linkage)
endif()

function(lfarm_joined out path)
  list(LENGTH ARGN count)
  if(NOT LFARM_JOIN OR count LESS 2)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/${path}/)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  # Files of the same size, give or take one source.
  math(EXPR parts "(${count} + ${LFARM_JOINED_MAX} - 1) / ${LFARM_JOINED_MAX}")
  set(files)
  foreach(part RANGE 1 ${parts})
    math(EXPR first "(${part} - 1) * ${count} / ${parts}")
    math(EXPR length "${part} * ${count} / ${parts} - ${first}")
    list(SUBLIST ARGN ${first} ${length} sources)
    # Found through the component's include root: the same text in every checkout, so that ccache
    # knows the file again.
    list(TRANSFORM sources REPLACE "(.+)" "#include \"${path}/\\1\"\n")
    string(JOIN "" text ${sources})
    set(file ${CMAKE_BINARY_DIR}/joined/${path}/part_${part}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND files ${file})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
