# The page in a browser, with a real farm behind it: Python programs that exit with 77 where there is
# no Chromium.
foreach(name access content looks restart)
  add_test(NAME farm.page_${name}
    COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_LIST_DIR}/page/${name}_test.py)
  set_tests_properties(farm.page_${name} PROPERTIES LABELS farm SKIP_RETURN_CODE 77
    ENVIRONMENT "LFARM_BIN=${CMAKE_BINARY_DIR}/bin")
  lfarm_time_limit(farm.page_${name} 1800)
  lfarm_sanitized_test(farm.page_${name})
endforeach()

# What needs no browser, where there is a Node.js that imports modules.
find_program(NODE_JS NAMES node nodejs)
if(NODE_JS)
  add_test(NAME unit.page_format COMMAND ${NODE_JS} ${CMAKE_CURRENT_LIST_DIR}/page/format_test.mjs
    ${CMAKE_SOURCE_DIR}/tests/fixtures/quantities.txt)
  set_tests_properties(unit.page_format PROPERTIES LABELS unit)
  lfarm_time_limit(unit.page_format 60)
endif()
