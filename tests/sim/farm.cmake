lfarm_test(farm_sim LABEL sim TIMEOUT 1800
  SOURCES farm_auditor.cc farm_describe.cc farm_desk.cc farm_disk.cc farm_fairness.cc farm_ledger.cc
          farm_packets.cc farm_sim_test.cc farm_world.cc flawed_scheduler.cc
  COMPONENTS coordinator/farm common/wire)
