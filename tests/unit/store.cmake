lfarm_test(store LABEL unit SOURCES store_test.cc COMPONENTS cache/store)
lfarm_test(store_scale LABEL unit SOURCES store_scale_test.cc COMPONENTS cache/store)
lfarm_test(store_faults LABEL unit SOURCES store_faults_test.cc COMPONENTS cache/store)
lfarm_test(store_damage LABEL unit SOURCES store_damage_test.cc COMPONENTS cache/store)
