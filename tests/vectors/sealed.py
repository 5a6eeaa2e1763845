#!/usr/bin/env python3
"""Makes sealed.json: a handshake, a cookie and sealed packets, as docs/protocol.md describes them.

Written from the description alone, with hashlib and the package `cryptography`; it shares no line
with MPT. Prints the file: tests/vectors/sealed.py > tests/vectors/sealed.json
"""

import hashlib
import hmac
import json
import struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NAME = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"
PROLOGUE = b"MPT 2"


def public(private):
    key = X25519PrivateKey.from_private_bytes(private).public_key()
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, peer):
    key = X25519PrivateKey.from_private_bytes(private)
    return key.exchange(X25519PublicKey.from_public_bytes(peer))


def blake2s(data):
    return hashlib.blake2s(data).digest()


def keyed(key, data, size):
    return hashlib.blake2s(data, key=key, digest_size=size).digest()


def hkdf(chaining_key, material, outputs):
    """Noise revision 34, section 4.3."""
    temporary = hmac.new(chaining_key, material, hashlib.blake2s).digest()
    parts, last = [], b""
    for n in range(1, outputs + 1):
        last = hmac.new(temporary, last + bytes([n]), hashlib.blake2s).digest()
        parts.append(last)
    return parts


class Symmetric:
    """Noise revision 34, section 5.2."""

    def __init__(self):
        # The name is longer than a hash.
        self.h = blake2s(NAME)
        self.ck = self.h
        self.k, self.n = None, 0
        self.mix_hash(PROLOGUE)

    def mix_hash(self, data):
        self.h = blake2s(self.h + data)

    def mix_key(self, material):
        self.ck, self.k = hkdf(self.ck, material, 2)
        self.n = 0

    def mix_key_and_hash(self, material):
        self.ck, temporary, self.k = hkdf(self.ck, material, 3)
        self.mix_hash(temporary)
        self.n = 0

    def encrypt(self, plaintext):
        nonce = struct.pack("<IQ", 0, self.n)
        out = ChaCha20Poly1305(self.k).encrypt(nonce, plaintext, self.h)
        self.n += 1
        self.mix_hash(out)
        return out


def handshake(initiator, responder, psk, e_initiator, e_responder, offer, accept):
    """Both Noise messages and the two keys: the initiator's, the responder's."""
    state = Symmetric()
    state.mix_hash(public(responder))
    # -> e, es, s, ss
    state.mix_hash(public(e_initiator))
    state.mix_key(public(e_initiator))
    first = public(e_initiator)
    state.mix_key(dh(e_initiator, public(responder)))
    first += state.encrypt(public(initiator))
    state.mix_key(dh(initiator, public(responder)))
    first += state.encrypt(offer)
    # <- e, ee, se, psk
    state.mix_hash(public(e_responder))
    state.mix_key(public(e_responder))
    second = public(e_responder)
    state.mix_key(dh(e_responder, public(e_initiator)))
    state.mix_key(dh(e_responder, public(initiator)))
    state.mix_key_and_hash(psk)
    second += state.encrypt(accept)
    return first, second, *hkdf(state.ck, b"", 2)


def mac1(addressee, message):
    return keyed(blake2s(b"mpt mac1" + public(addressee)), message, 16)


def seal(cipher, key, space, number, associated, plaintext):
    primitive = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}[cipher](key)
    return primitive.encrypt(struct.pack(">IQ", space, number), plaintext, associated)


def main():
    initiator = bytes(range(0x00, 0x20))
    responder = bytes(range(0x20, 0x40))
    psk = bytes(range(0x40, 0x60))
    e_initiator = bytes(range(0x60, 0x80))
    e_responder = bytes(range(0x80, 0xA0))
    initiator_index, responder_index = 0x01020304, 0x0A0B0C0E
    initiator_session, responder_session = 0x1122334455667788, 0x99AABBCCDDEEFF00
    seconds, nanoseconds = 1_700_000_000, 123_456_789
    initiator_next, responder_next = 0, 0x1_0000_0005

    offer = struct.pack(">QI", (1 << 62) + seconds, nanoseconds)
    offer += struct.pack(">IQQB3x", initiator_index, initiator_next, initiator_session, 1)
    accept = struct.pack(">IQQB3x", responder_index, responder_next, responder_session, 1)
    first, second, to_responder, to_initiator = handshake(
        initiator, responder, psk, e_initiator, e_responder, offer, accept
    )
    initiation = bytes([3, 0, 0, 0]) + first
    initiation_mac1 = mac1(responder, initiation)
    initiation += initiation_mac1
    response = bytes([4, 0, 0, 0]) + struct.pack(">I", initiator_index) + second
    response += mac1(initiator, response)

    cookie = bytes(range(0xA0, 0xB0))
    nonce = bytes(range(0xB0, 0xC8))
    cookie_key = keyed(blake2s(b"mpt cook" + public(responder)), nonce, 32)
    sealed_cookie = ChaCha20Poly1305(cookie_key).encrypt(bytes(12), cookie, initiation_mac1)
    reply = bytes([5, 0, 0, 0]) + nonce + sealed_cookie

    packet = bytes.fromhex(
        "45020020ac8c4000400179860a6300010a6300020800bb153ae4000200010203"
    )
    data, control = [], []
    for cipher in ["aes-256-gcm", "chacha20-poly1305"]:
        for ordered, number in [(True, 0), (True, 0x1_0000_0005), (False, 0)]:
            key = responder_index | (0 if ordered else 1)
            gre = struct.pack(">HHII", 0x3000, 0x88B6, key, number & 0xFFFF_FFFF)
            space, plaintext = (0 if ordered else 2), struct.pack(">H", 0x0800) + packet
            sealed = seal(cipher, to_responder, space, number, gre, plaintext)
            datagram = (gre + sealed).hex()
            data.append(
                {"cipher": cipher, "ordered": ordered, "number": number, "datagram": datagram}
            )
        for source, to, number in [(0, 1, 7), (3, None, 7)]:
            route = bytes([source, 0xFF if to is None else to])
            numbered = int.from_bytes(route + number.to_bytes(6, "big"), "big")
            gre = struct.pack(">HHIQ", 0x2000, 0x88B6, responder_index, numbered)
            sealed = seal(cipher, to_responder, 1, numbered, gre, b"a control message")
            datagram = (gre + sealed).hex()
            control.append(
                {"cipher": cipher, "from": source, "to": to, "number": number, "datagram": datagram}
            )

    vectors = {
        "initiator": {"private": initiator.hex(), "public": public(initiator).hex()},
        "responder": {"private": responder.hex(), "public": public(responder).hex()},
        "psk": psk.hex(),
        "initiation": {
            "ephemeral": e_initiator.hex(),
            "seconds": seconds,
            "nanoseconds": nanoseconds,
            "index": initiator_index,
            "next_number": initiator_next,
            "session": initiator_session,
            "hardware_aes": True,
            "message": (initiation + bytes(16)).hex(),
        },
        "response": {
            "ephemeral": e_responder.hex(),
            "index": responder_index,
            "next_number": responder_next,
            "session": responder_session,
            "hardware_aes": True,
            "message": response.hex(),
        },
        "keys": {"to_responder": to_responder.hex(), "to_initiator": to_initiator.hex()},
        "cookie": {
            "cookie": cookie.hex(),
            "nonce": nonce.hex(),
            "reply": reply.hex(),
            "initiation": (initiation + keyed(cookie, initiation, 16)).hex(),
        },
        "packet": packet.hex(),
        "data": data,
        "control_message": b"a control message".hex(),
        "control": control,
    }
    print(json.dumps(vectors, indent=1))


if __name__ == "__main__":
    main()
