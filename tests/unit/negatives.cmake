lfarm_test(negatives LABEL unit SOURCES negatives_test.cc COMPONENTS clients/runtime)
