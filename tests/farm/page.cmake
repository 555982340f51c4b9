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
