"""STAMP as scapy speaks it (scapy.contrib.stamp, RFC 8762 and RFC 8972), for native_measure.rs.

stamp.py reflect PORT: answers, numbered, until it is ended; swallows test packet 3, and the answer to test packet 6.
stamp.py send HOST PORT: sends three test packets with TLVs, and prints what came back, as JSON.
"""

import json
import logging
import socket
import sys
import time

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.contrib.stamp import (
    ErrorEstimate,
    STAMPSessionReflectorTestUnauthenticated as Answer,
    STAMPSessionSenderTestUnauthenticated as Test,
    STAMPTestTLV as Tlv,
)
from scapy.layers.inet import UDP

CLOCK_AHEAD = 3600
# scapy gives times as they stand on the wire, since 1900.
SECONDS_TO_1970 = 2208988800


def read(kind, data):
    """scapy finds the end of the TLVs by the length in the UDP header."""
    return kind(data, _parent=UDP(len=8 + len(data)))


def reflect(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("0.0.0.0", port))
    print("listening", file=sys.stderr, flush=True)
    number = 0
    while True:
        data, sender = listener.recvfrom(2000)
        received = time.time() + CLOCK_AHEAD
        test = read(Test, data)
        if test.seq == 3:
            continue
        answer = Answer(
            seq=number,
            ts=time.time() + CLOCK_AHEAD,
            err_estimate=ErrorEstimate(S=1, multiplier=1),
            ssid=test.ssid,
            ts_rx=received,
            seq_sender=test.seq,
            ts_sender=test.ts,
            err_estimate_sender=test.err_estimate,
            tlv_objects=test.tlv_objects,
        )
        number += 1
        if test.seq != 6:
            listener.sendto(bytes(answer), sender)


def send(host, port):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.settimeout(5)
    answers = []
    for number in (10, 11, 12):
        tlvs = [
            Tlv(flags=0x80, type=1, len=8, value=b"\0" * 8),
            Tlv(flags=0x80, type=200, len=2, value=b"hi"),
        ]
        test = Test(seq=number, ts=time.time(), ssid=0xBEEF, tlv_objects=tlvs)
        sender.sendto(bytes(test), (host, port))
        data = sender.recv(2000)
        answer = read(Answer, data)
        answers.append(
            {
                "number": answer.seq,
                "session": answer.ssid,
                "test_number": answer.seq_sender,
                "same_time": bytes(test)[4:12] == data[28:36],
                "same_length": len(data) == len(bytes(test)),
                "seconds_away": abs(float(answer.ts_rx) - SECONDS_TO_1970 - time.time()),
                "took_s": float(answer.ts - answer.ts_rx),
                "tlvs": [[int(tlv.flags), tlv.type, tlv.value.hex()] for tlv in answer.tlv_objects],
            }
        )
    print(json.dumps(answers))


if sys.argv[1] == "reflect":
    reflect(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]))
