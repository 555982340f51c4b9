lfarm_test(wire_codec LABEL unit SOURCES wire_codec_test.cc COMPONENTS common/wire)
lfarm_test(wire_socket LABEL unit SOURCES wire_socket_test.cc COMPONENTS common/wire)
lfarm_test(wire_security LABEL unit SOURCES wire_security_test.cc COMPONENTS common/wire)
lfarm_test(wire_ir LABEL unit SOURCES wire_ir_test.cc wire_samples.cc COMPONENTS common/wire LIBRARIES lfarm_schemas)
